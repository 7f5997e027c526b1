"""The API server as tests need it: its contract, odd replies, and a clock."""
