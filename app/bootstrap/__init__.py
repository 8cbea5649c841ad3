"""The composition root: the only place that names implementations. One file a capability, and the container of all."""
