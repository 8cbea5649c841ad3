"""Tells users what happened to what is theirs: webhooks, e-mail, chat."""
