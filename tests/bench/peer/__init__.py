"""The trivial Go extender that Topolog is compared with, and the Go client that calls both."""
