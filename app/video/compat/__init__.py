"""The requirement's endpoints, to the letter: /user/…, /node/…, /service/… and the additional ones of the original
system."""
