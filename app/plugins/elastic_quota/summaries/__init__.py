"""What the views show of quotas and pods."""
