"""Reasoning parsers: the constraint begins where the thinking of the model ends, and the answer is the content.

sections    where the thinking of an output begins and ends; a text taken apart
parser      vLLM's parser of a request, which takes a constrained answer apart there
serving     the choke point: when the prompt is known, the constraint of what follows it is compiled
"""
