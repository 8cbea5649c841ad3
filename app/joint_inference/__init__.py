"""Joint inference: a small model at the edge answers, and asks the big one in the cloud for the hard samples."""
