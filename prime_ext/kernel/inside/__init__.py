"""What runs inside the user's kernel. Sent there as source: standard library only, Python 3.8."""
