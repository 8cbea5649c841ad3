"""Nodes: the machines that run models. The web knows each by name and token, and tells it what to run; one agent on
each dials out, starts and watches workers, and goes on while the web is unreachable."""
