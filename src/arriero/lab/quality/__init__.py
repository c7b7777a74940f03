"""Quality of model files: how well they predict a text, how far they are from a reference, what they say."""
