"""Training on Ray: a durable queue with the gang rule before the cluster; what comes of it goes to conversion."""
