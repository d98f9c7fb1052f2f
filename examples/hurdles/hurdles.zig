//! Hurdles: a runner, one button, and hurdles that come faster and faster. The rules, as module interface version 1.
//!
//! Lengths are in 1/256 of a pixel, times in ticks of 1/60 s. Nothing here is a float, reads a clock, or allocates.

const std = @import("std");

const ticks_limit = 3600;
const words_limit = ticks_limit;
const checkpoints_limit = ticks_limit;

const pixel = 256;
const runner_at = 60 * pixel;
const runner_width = 10 * pixel;
const start_speed = 3 * pixel;
const speed_limit = 9 * pixel;
const ticks_to_faster = 3; // the speed rises by one every so many ticks
const jump_speed = 4 * pixel + 128;
const gravity_held = 70; // while the button is held and the runner rises
const gravity = 130;
const first_hurdle_at = 400 * pixel;
const hurdles_ahead = 4;
const points_per_hurdle = 10;
const points_per_close = 20;
const close_call = 8 * pixel; // cleared by less than this

/// A hurdle; `width` 0 is a free slot, and all of a free slot is 0.
const Hurdle = extern struct { at: i32, width: i32, height: i32, is_cleared: u32 };

/// All that can influence a later tick, and nothing else: fields of fixed width in a fixed order, without padding.
const State = extern struct {
    random: u64,
    score: i64,
    tick: u32,
    is_over: u32,
    was_held: u32,
    speed: i32,
    height: i32,
    rise: i32,
    cleared: i32,
    close_calls: i32,
    jumps: i32,
    gap: i32,
    hurdles: [hurdles_ahead]Hurdle,
};

comptime {
    if (@sizeOf(State) != 16 + 10 * 4 + hurdles_ahead * 16) @compileError("the state has padding");
}

/// The result record of `simulate`, with three statistics.
const Result = extern struct {
    ticks_played: u32,
    is_over: u32,
    score: i64,
    state_hash: u64,
    stat_count: u32,
    checkpoint_count: u32,
    stats: [3]i64,
    checkpoints: [checkpoints_limit]u64,
};

var state: State align(8) = undefined;
var words: [words_limit]u32 align(8) = undefined;
var result: Result align(8) = undefined;

export fn abi_version() i32 {
    return 1;
}

export fn start(seed: u64) void {
    state = std.mem.zeroes(State);
    state.random = seed;
    state.speed = start_speed;
    state.gap = first_hurdle_at;
}

export fn tick(word: u32) i32 {
    if (state.is_over != 0) return 0;
    state.tick += 1;
    if (word > 1) { // every word means something: an unknown button ends the run
        state.is_over = 1;
        return 0;
    }
    move(word == 1);
    roll();
    state.was_held = word;
    if (state.tick == ticks_limit) state.is_over = 1;
    return if (state.is_over != 0) 0 else 1;
}

export fn score() i64 {
    return state.score;
}

/// FNV-1a over the bytes of the state, with a last mix (splitmix64's) so that close states look far apart.
export fn state_hash() u64 {
    var hash: u64 = 0xcbf29ce484222325;
    for (std.mem.asBytes(&state)) |byte| {
        hash = (hash ^ byte) *% 0x100000001b3;
    }
    return mixed(hash);
}

export fn view() u32 {
    return @intFromPtr(&state);
}

export fn inputs(ticks: u32) u32 {
    return if (ticks > words_limit) 0 else @intFromPtr(&words);
}

export fn simulate(seed: u64, ticks: u32, checkpoint_every: u32) u32 {
    if (ticks > words_limit) return 0;
    start(seed);
    var played: u32 = 0;
    var checkpoints: u32 = 0;
    while (played < ticks and state.is_over == 0) {
        _ = tick(words[played]);
        played += 1;
        if (checkpoint_every != 0 and played % checkpoint_every == 0) {
            result.checkpoints[checkpoints] = state_hash();
            checkpoints += 1;
        }
    }
    result.ticks_played = played;
    result.is_over = state.is_over;
    result.score = state.score;
    result.state_hash = state_hash();
    // The record has no gap between statistics and checkpoints, and both counts are this module's own.
    result.stat_count = result.stats.len;
    result.checkpoint_count = checkpoints;
    result.stats = .{ state.cleared, state.close_calls, state.jumps };
    return @intFromPtr(&result);
}

fn move(is_held: bool) void {
    if (state.height == 0 and state.rise == 0 and is_held and state.was_held == 0) {
        state.rise = jump_speed;
        state.jumps += 1;
    }
    state.height += state.rise;
    state.rise -= if (is_held and state.rise > 0) gravity_held else gravity;
    if (state.height <= 0) {
        state.height = 0;
        state.rise = 0;
    }
    if (state.tick % ticks_to_faster == 0 and state.speed < speed_limit) state.speed += 1;
}

fn roll() void {
    state.gap -= state.speed;
    for (&state.hurdles) |*hurdle| {
        if (hurdle.width == 0) continue;
        hurdle.at -= state.speed;
        meet(hurdle);
        if (hurdle.at + hurdle.width < 0) hurdle.* = .{ .at = 0, .width = 0, .height = 0, .is_cleared = 0 };
    }
    if (state.gap <= 0) place();
}

fn meet(hurdle: *Hurdle) void {
    const is_under = hurdle.at < runner_at + runner_width and hurdle.at + hurdle.width > runner_at;
    if (is_under and state.height < hurdle.height) state.is_over = 1;
    const is_behind = hurdle.at + hurdle.width <= runner_at;
    if (is_behind and hurdle.is_cleared == 0 and state.is_over == 0) {
        hurdle.is_cleared = 1;
        state.cleared += 1;
        state.score += points_per_hurdle;
        if (state.height - hurdle.height < close_call) {
            state.close_calls += 1;
            state.score += points_per_close;
        }
    }
}

fn place() void {
    for (&state.hurdles) |*hurdle| {
        if (hurdle.width != 0) continue;
        hurdle.at = 640 * pixel;
        hurdle.width = (6 + below(14)) * pixel;
        hurdle.height = (10 + below(14)) * pixel;
        hurdle.is_cleared = 0;
        break;
    }
    // Never closer than one jump takes at this speed, so that every run can go on.
    state.gap = 48 * state.speed + below(60) * pixel;
}

/// The next number of the generator (splitmix64), from 0 to `limit` - 1.
fn below(limit: u32) i32 {
    state.random +%= 0x9e3779b97f4a7c15;
    return @intCast(mixed(state.random) % limit);
}

fn mixed(number: u64) u64 {
    var z = number;
    z = (z ^ (z >> 30)) *% 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) *% 0x94d049bb133111eb;
    return z ^ (z >> 31);
}
