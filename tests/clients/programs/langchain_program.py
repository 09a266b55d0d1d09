"""LangChain: `with_structured_output` as its documentation has it. Arguments: URL, model, method. Prints the extracted object."""

import sys

from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field


class Person(BaseModel):
    """Information about a person."""

    name: str = Field(description="The name of the person")
    height_in_meters: float = Field(description="The height of the person expressed in meters.")


url, name, method = sys.argv[1:]
model = ChatOpenAI(base_url=f"{url}/v1", api_key="none", model=name, max_tokens=200, max_retries=0, temperature=0)
structured = model.with_structured_output(Person, method="json_schema" if method == "stream" else method)
prompt = "Anna is 23 years old and she is 6 feet tall. Answer as JSON with name and height_in_meters."
if method == "stream":
    *_, person = structured.stream(prompt)
else:
    person = structured.invoke(prompt)
assert isinstance(person, Person), person
print(person.model_dump_json())
