"""Output for people: tables for the terminal, frames to work on, and a page for the browser."""
