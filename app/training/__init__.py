"""Training on Ray: a durable queue with the gang rule in front of the cluster; results go to conversion."""
