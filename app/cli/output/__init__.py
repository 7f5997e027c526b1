"""What commands print: tables for people, documents for programs, and the columns of both."""
