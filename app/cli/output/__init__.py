"""The output of commands: tables for people, documents for programs, and the columns of both."""
