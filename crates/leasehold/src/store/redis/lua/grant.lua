-- Where holds end by time and waiters are granted: the one place for both (model/promote.rs).

local DEAD_AFTER = 3000000 -- µs
local SKIP_BOUND, GRANT_BOUND, REAP_BOUND = 16, 16, 64
local LOCK_CAPACITY = 2147483647
local TOKEN_EPOCH = 1577836800000000 -- µs: 2020-01-01T00:00Z

-- Ends holds whose time has come, a bounded number of them.
local function sweep()
  if record.count == 0 then return end
  if record.bound > now + record.longest_ttl + CLAIM_WINDOW then
    -- The server's clock went back. Without this, nothing would end before the clock has caught
    -- up with deadlines of its own future.
    record.bound, record.cursor, record.running = now, 0, NEVER
  end
  if now < record.bound then return end
  for _ = 1, REAP_BOUND do
    if record.cursor >= record.count then break end
    local deadline = clamp(hold_at(record.cursor))
    if deadline <= now then
      expire(record.cursor)
    else
      record.running = math.min(record.running, deadline)
      record.cursor = record.cursor + 1
    end
  end
  if record.count == 0 then return end
  if record.cursor >= record.count then
    record.bound, record.cursor, record.running = record.running, 0, NEVER
  else
    more = 1
  end
end

local function mint()
  record.last_token = math.max(now, record.last_token + 1, TOKEN_EPOCH + 1)
  return record.last_token
end

-- Writes the hold, for its ttl or until an earlier deadline by which it must be confirmed.
local function grant(waiter, state, claim_by)
  local deadline = claim_by or now + waiter.ttl
  add_hold({
    id = waiter.id, weight = waiter.weight, state = state, token = mint(), since = now,
    deadline = deadline, ttl = waiter.ttl, nonce = waiter.nonce, facts = waiter.facts,
  })
  keep_until(deadline)
end

local function tell(id, payload)
  messages[#messages + 1] = { client = client_of(id), payload = payload }
end

local function tell_granted(hold)
  tell(hold.id, struct.pack('<c1dc8ddd', 'G', attempt_of(hold.id), hold.nonce, hold.token, now,
    hold.deadline))
end

local function become_writer(hold)
  record.upgrading = NOBODY
  record.used = record.used + LOCK_CAPACITY - hold.weight
  hold.weight, hold.token = LOCK_CAPACITY, mint()
end

local function grant_head(head, is_caller, last_seen)
  leave(head)
  if is_caller then
    grant(head, CLAIMED, nil)
    return
  end
  -- Whoever has been silent gets no longer than until it would be dead, yet time for a poll: so
  -- that dead waiters cost one claim window together and not one each.
  local patience = math.max(last_seen + DEAD_AFTER, now + POLL_INTERVAL)
  grant(head, UNCLAIMED, math.min(patience, now + math.min(CLAIM_WINDOW, head.ttl)))
  tell_granted(hold_at(record.count - 1))
end

-- Grants to whoever is next, until something does not fit. Skips the dead. `caller` is the attempt
-- on whose behalf the step runs: it is here, so its grant is confirmed at once, without a message.
local function promote(caller)
  if record.upgrading ~= NOBODY then
    if record.count == 1 then -- the reader that waits to become the writer is the last one left
      become_writer(hold_at(0))
      tell_granted(hold_at(0))
    end
    return
  end
  local skipped, grants = 0, 0
  while record.waiting > 0 do
    local head, is_caller = linked(queue.head), queue.head == caller
    local last_seen = seen(client_of(head.id))
    if not is_caller and last_seen + DEAD_AFTER <= now then
      if skipped == SKIP_BOUND then
        more = 1
        return
      end
      skipped = skipped + 1
      leave(head)
    else
      if record.used + head.weight > record.capacity then return end
      if grants == GRANT_BOUND then
        more = 1
        return
      end
      grants = grants + 1
      grant_head(head, is_caller, last_seen)
    end
  end
end

-- A waiter asks: its client is alive, and it is granted if it is next.
local function wait_on(waiter, ttl)
  see(client_of(waiter.id))
  promote(waiter.id)
  local index = hold_of(waiter.id)
  if index then return confirm(index, ttl) end
  return place(waiter)
end
