"""Who may connect, under which names, and how much one address may use."""
