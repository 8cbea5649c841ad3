"""What runs in a process of its own for one transfer: the libraries of hubs and registries are heavy, and may hang."""
