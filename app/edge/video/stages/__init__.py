"""The programs that stages are: what a node runs on a picture. `registry` finds their kinds by name."""
