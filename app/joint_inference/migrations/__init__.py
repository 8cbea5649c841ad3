"""Database migrations of joint inference only."""
