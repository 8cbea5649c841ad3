"""What the installation says under its name: Ed25519 keys, and DSSE envelopes signed by them."""
