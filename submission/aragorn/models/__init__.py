"""Networks and their shared layers."""
