"""Notifies users of events about their resources: webhooks, e-mail, chat."""
