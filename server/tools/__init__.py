"""Tool calling: from the tools of a request to a constraint, and from what was written to what vLLM answers.

request -> conventions -> constraint    what calls look like, in the format of the server's tool parser
list_parser, serving                    vLLM's side: a parser where none is set, honest answers where calls are cut off
"""
