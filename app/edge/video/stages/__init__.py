"""The programs of stages, which a node runs on a picture. `registry` finds their kinds by name."""
