-- In: the body of an OpenAI request; out: txn.affinity, the text by whose hash HAProxy picks a pod. Parses no more JSON than it needs.
--
-- Equal constraints on one pod find their index there; equal prompt starts find their blocks of the KV cache. The values are taken
-- as they are written: clients that serialise the same schema in the same way are the ones who repeat themselves.

local CONSTRAINTS = {
    guided_json = true, guided_regex = true, guided_choice = true, guided_grammar = true, guided_ref = true,
    structured_outputs = true, response_format = true,
}
local PROMPTS = { messages = true, prompt = true, input = true }

-- Position behind the string that starts at `from` (a quote), or nil where the body was cut off in it.
local function string_end(body, from)
    local at = from + 1
    while true do
        local stop = body:find('["\\]', at)
        if not stop then return nil end
        if body:byte(stop) == 34 then return stop + 1 end
        at = stop + 2
    end
end

-- Position behind the value that starts at `from`; behind the body where that was cut off in it.
local function value_end(body, from)
    local depth, at = 0, from
    while at <= #body do
        local stop = body:find('["%[%]{},]', at)
        if not stop then break end
        local byte = body:byte(stop)
        if byte == 34 then
            at = string_end(body, stop)
            if not at then break end
        elseif byte == 91 or byte == 123 then
            depth, at = depth + 1, stop + 1
        elseif byte == 44 then
            if depth == 0 then return stop end
            at = stop + 1
        else
            if depth == 0 then return stop end
            depth, at = depth - 1, stop + 1
        end
    end
    return #body + 1
end

-- The members of the top-level object, as they are written: key, value text.
local function members(body)
    local at = body:match("^%s*{()")
    return function()
        if not at then return nil end
        local quote = body:match('^[%s,]*()"', at)
        local after = quote and string_end(body, quote)
        local start = after and body:match("^%s*:%s*()", after)
        if not start then return nil end
        at = value_end(body, start)
        return body:sub(quote + 1, after - 2), body:sub(start, at - 1)
    end
end

local function affinity_key(body, mode, prefix_bytes)
    local constraint, prompt = "", ""
    for key, value in members(body) do
        if CONSTRAINTS[key] and value ~= "null" then
            constraint = constraint .. key .. value
        elseif PROMPTS[key] then
            prompt = value:sub(1, prefix_bytes)
        end
    end
    if mode == "constraint" then return constraint end
    if mode == "prefix" then return prompt end
    return constraint .. "\n" .. prompt
end

if core then
    core.register_action("affinity", { "http-req" }, function(txn, mode, prefix_bytes)
        local key = affinity_key(txn.f:req_body() or "", mode, tonumber(prefix_bytes))
        -- Nothing to go by (another route, no constraint): any pod will do.
        if key == "" or key == "\n" then key = tostring(txn.f:uuid()) end
        txn:set_var("txn.affinity", key)
    end, 2)
end

return { affinity_key = affinity_key }
