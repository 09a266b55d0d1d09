"""PydanticAI: the structured output example of its documentation. Arguments: URL, model, way. Prints the extracted object."""

import sys

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class CityLocation(BaseModel):
    city: str
    country: str


url, name, way = sys.argv[1:]
model = OpenAIChatModel(name, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))
outputs = {"plain": CityLocation, "tool": ToolOutput(CityLocation), "native": NativeOutput(CityLocation)}
agent = Agent(model, output_type=outputs[way], retries=0, model_settings={"max_tokens": 200, "temperature": 0})
result = agent.run_sync("Where were the olympics held in 2012?")
assert isinstance(result.output, CityLocation)
print(result.output.model_dump_json())
