-- Where holds end by time and waiters are granted: the one place for both (model/promote.rs).

-- Ends holds whose time has come, a bounded number of them.
function step.sweep()
  if record.count == 0 then return end
  if record.bound > now + record.longest_ttl + step.CLAIM_WINDOW then
    -- The server's clock went back. Without this, nothing would end before the clock has caught
    -- up with deadlines of its own future.
    record.bound, record.cursor, record.running = now, 0, step.NEVER
  end
  if now < record.bound then return end
  for _ = 1, step.REAP_BOUND do
    if record.cursor >= record.count then break end
    local deadline = step.clamp(step.hold_at(record.cursor))
    if deadline <= now then
      step.expire(record.cursor)
    else
      record.running = math.min(record.running, deadline)
      record.cursor = record.cursor + 1
    end
  end
  if record.count == 0 then return end
  if record.cursor >= record.count then
    record.bound, record.cursor, record.running = record.running, 0, step.NEVER
  else
    step.more = 1
  end
end

function step.mint()
  record.last_token = math.max(now, record.last_token + 1, step.TOKEN_EPOCH + 1)
  return record.last_token
end

-- Writes the hold, for its ttl or until an earlier deadline by which it must be confirmed.
function step.grant(waiter, state, claim_by)
  local deadline = claim_by or now + waiter.ttl
  step.add_hold({
    id = waiter.id, weight = waiter.weight, state = state, token = step.mint(), since = now,
    deadline = deadline, ttl = waiter.ttl, nonce = waiter.nonce, facts = waiter.facts,
  })
  step.keep_until(deadline)
end

function step.tell(id, payload)
  step.messages[#step.messages + 1] = { client = step.client_of(id), payload = payload }
end

function step.tell_granted(hold)
  step.tell(hold.id, struct.pack('<c1dc8ddd', 'G', step.attempt_of(hold.id), hold.nonce,
    hold.token, now, hold.deadline))
end

function step.become_writer(hold)
  record.upgrading = step.NOBODY
  record.used = record.used + step.LOCK_CAPACITY - hold.weight
  hold.weight, hold.token = step.LOCK_CAPACITY, step.mint()
end

function step.grant_head(head, is_caller, last_seen)
  step.leave(head)
  if is_caller then
    step.grant(head, step.CLAIMED, nil)
    return
  end
  -- Whoever has been silent gets no longer than until it would be dead, yet time for a poll: so
  -- that dead waiters cost one claim window together and not one each.
  local patience = math.max(last_seen + step.DEAD_AFTER, now + step.POLL_INTERVAL)
  step.grant(head, step.UNCLAIMED, math.min(patience, now + math.min(step.CLAIM_WINDOW, head.ttl)))
  step.tell_granted(step.hold_at(record.count - 1))
end

-- Grants to whoever is next, until something does not fit. Skips the dead. `caller` is the attempt
-- on whose behalf the step runs: it is here, so its grant is confirmed at once, without a message.
function step.promote(caller)
  if record.upgrading ~= step.NOBODY then
    if record.count == 1 then -- the reader that waits to become the writer is the last one left
      step.become_writer(step.hold_at(0))
      step.tell_granted(step.hold_at(0))
    end
    return
  end
  local skipped, grants = 0, 0
  while record.waiting > 0 do
    local head, is_caller = step.linked(record.queue.head), record.queue.head == caller
    local last_seen = step.seen(step.client_of(head.id))
    if not is_caller and last_seen + step.DEAD_AFTER <= now then
      if skipped == step.SKIP_BOUND then
        step.more = 1
        return
      end
      skipped = skipped + 1
      step.leave(head)
    else
      if record.used + head.weight > record.capacity then return end
      if grants == step.GRANT_BOUND then
        step.more = 1
        return
      end
      grants = grants + 1
      step.grant_head(head, is_caller, last_seen)
    end
  end
end

-- A waiter asks: its client is alive, and it is granted if it is next.
function step.wait_on(waiter, ttl)
  step.see(step.client_of(waiter.id))
  step.promote(waiter.id)
  local index = step.hold_of(waiter.id)
  if index then return step.confirm(index, ttl) end
  return step.place(waiter)
end
