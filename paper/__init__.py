"""The paper's machinery: recorded results become macros, tables and figures."""
