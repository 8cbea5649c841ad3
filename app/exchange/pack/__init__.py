"""The pack of a job: what runs its model elsewhere and shows that it runs there as it ran here."""
