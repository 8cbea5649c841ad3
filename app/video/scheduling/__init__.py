"""The scheduler: policies, each a pure function, and what guards the product against them."""
