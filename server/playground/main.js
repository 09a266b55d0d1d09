// Puts the page together: connection, constraint, request. The key stays in this tab's session storage.

import { Api, Refusal } from "./api.js";
import { ConstraintPanel } from "./constraint_panel.js";
import { RequestPanel } from "./request_panel.js";

const KEY = "guided-api-key";

const byId = (id) => document.getElementById(id);
const [model, key, banner] = [byId("model"), byId("key"), byId("connection-message")];

const api = new Api();
api.key = key.value = sessionStorage.getItem(KEY) ?? "";

function complain(message) {
  banner.textContent = message;
  banner.hidden = message === "";
}

function unauthorised(message) {
  complain(message);
  key.setAttribute("aria-invalid", "true");
  key.focus();
}

async function connect() {
  complain("");
  key.removeAttribute("aria-invalid");
  try {
    const names = await api.models();
    model.replaceChildren(...names.map((name) => new Option(name, name)));
    model.disabled = false;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.status === 401) unauthorised(error.message);
    else complain(error.message);
  }
  request.showCall();
}

const constraint = new ConstraintPanel(api, () => request.showCall());
const request = new RequestPanel(api, constraint, () => model.value, unauthorised);

byId("connection").addEventListener("submit", async (event) => {
  event.preventDefault();
  api.key = key.value.trim();
  sessionStorage.setItem(KEY, api.key);
  await connect();
  constraint.check();
});
model.addEventListener("change", () => request.showCall());

await connect();
constraint.show(document.querySelector("input[name=kind]:checked").value);
