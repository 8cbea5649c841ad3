"""What runs inside each system's own environment. Nothing here imports the product, but modelmill_app."""
