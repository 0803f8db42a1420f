"""PromQL: lexer, syntax tree, parser and type check. Every node knows its span."""
