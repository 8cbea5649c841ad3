"""The endpoints of the requirement, to the letter: /user/…, /node/…, /service/… and what the origin had beside them."""
