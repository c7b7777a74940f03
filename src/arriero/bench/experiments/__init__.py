"""Published experiments as definitions: what each decides is said before it runs, and its statements are evaluated."""
