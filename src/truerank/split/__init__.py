"""Rules that divide interactions into train, validation and test."""
