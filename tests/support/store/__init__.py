"""Real servers in every arrangement, stores of earlier versions, and writers."""
