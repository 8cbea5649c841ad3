"""The installation's signatures: Ed25519 keys, and DSSE envelopes signed by them."""
