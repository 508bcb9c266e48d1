"""A whole RLVER step the straightforward way: 8 dialogues of 8 turns by `generate`, which renders and reads the history anew
every turn, then PPO with a critic on padded rows. What users say is drawn at random, as long as the built-in people's
lines; their thinking costs next to nothing on either side."""

import time

import torch

import models

DIALOGUES, TURNS, SYSTEM, USER, REPLY = 8, 8, 40, 36, 32


def prepare(shape):
    policy, critic = models.policy(shape), models.critic(shape)
    reference = models.policy(shape).eval()
    optimizers = [
        torch.optim.AdamW(policy.parameters(), lr=1e-6, weight_decay=0.01),
        torch.optim.AdamW(critic.parameters(), lr=5e-6, weight_decay=0.01),
    ]

    def run(request):
        turns = round(request.get("rollout/turns_per_dialogue", TURNS))
        begun = time.perf_counter()
        ids, actions, sampled = roll_out(policy, turns)
        rolled = time.perf_counter()
        train(policy, critic, reference, optimizers, ids, actions)
        ended = time.perf_counter()
        parts = {"time/rollout_s": rolled - begun, "time/update_s": ended - rolled, "rollout/tokens": sampled}
        return ended - begun, ids.numel(), parts

    return run


def lines(vocabulary, tokens):
    return torch.randint(vocabulary, (DIALOGUES, tokens))


@torch.no_grad()
def roll_out(policy, turns):
    policy.eval()
    vocabulary = policy.config.vocab_size
    ids = lines(vocabulary, SYSTEM)
    actions = torch.zeros_like(ids, dtype=torch.bool)
    for _ in range(turns):
        line = lines(vocabulary, USER)
        ids = torch.cat([ids, line], 1)
        actions = torch.cat([actions, torch.zeros_like(line, dtype=torch.bool)], 1)
        out = policy.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            min_new_tokens=REPLY,
            max_new_tokens=REPLY,
            pad_token_id=0,
        )
        reply = out[:, ids.shape[1] :]
        ids = out
        actions = torch.cat([actions, torch.ones_like(reply, dtype=torch.bool)], 1)
    return ids, actions, int(actions.sum())


def train(policy, critic, reference, optimizers, ids, actions):
    mask = actions[:, 1:].float()
    with torch.no_grad():
        old, _ = models.token_logprobs(policy, ids)
        expected, _ = models.token_logprobs(reference, ids)
        old_values = values_of(critic, ids)
    rewards = torch.zeros_like(old)
    last = mask.shape[1] - 1
    rewards[:, last] = torch.rand(DIALOGUES)
    advantages, returns = gae(rewards, old_values, mask)
    policy.train()
    critic.train()
    logp, entropy = models.token_logprobs(policy, ids)
    models.clipped_surrogate(logp, entropy, old, expected, advantages, mask).backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    values = values_of(critic, ids)
    clipped = old_values + (values - old_values).clamp(-0.5, 0.5)
    loss = torch.maximum((values - returns) ** 2, (clipped - returns) ** 2)
    (0.5 * (loss * mask).sum() / mask.sum()).backward()
    torch.nn.utils.clip_grad_norm_(critic.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def values_of(critic, ids):
    return critic(input_ids=ids, use_cache=False).logits[:, :-1, 0]


def gae(rewards, values, mask, gamma=1.0, lam=1.0):
    """Over action tokens only, whitened; one pass from behind over the columns."""
    advantages = torch.zeros_like(values)
    carried, following = torch.zeros(len(values)), torch.zeros(len(values))
    for t in reversed(range(values.shape[1])):
        here = mask[:, t] > 0
        delta = rewards[:, t] + gamma * following - values[:, t]
        carried = torch.where(here, delta + gamma * lam * carried, carried)
        following = torch.where(here, values[:, t], following)
        advantages[:, t] = torch.where(here, carried, torch.zeros_like(carried))
    returns = advantages + values
    chosen = advantages[mask > 0]
    return (advantages - chosen.mean()) / (chosen.std() + 1e-8) * mask, returns
