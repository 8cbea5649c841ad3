"""Nodes: the machines that run models. The web server identifies each by name and token, and sends it orders; one agent
on each connects to the web server, starts and monitors workers, and continues while the web server is unreachable."""
