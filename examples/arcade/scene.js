/** The picture: draws a view of the game and adds effects (trails, sparks, shake, floating numbers). */

import { FLARE_BLAST, LAST_TICK, RINGS } from "./game.js";

const HALF = 380;
const TURN = 2 * Math.PI;
const COLOURS = { spark: "#8ef6ff", shard: "#ff4d80", mote: "#ffe07a", wave: "#b795ff", gap: "#7dffb5", flare: "#ff8a3d", hull: "#ff6d8f" };

export class Scene {
  #canvas;
  #pen;
  #sky;
  #glows = new Map();
  #before = null;
  #particles = [];
  #words = [];
  #rings = [];
  #trail = [];
  #shake = 0;
  #flash = 0;
  #clock = 0;

  constructor(canvas) {
    this.#canvas = canvas;
    this.#pen = canvas.getContext("2d", { alpha: false });
    this.#sky = Array.from({ length: 150 }, () => ({ x: spread(HALF), y: spread(HALF), size: 0.4 + Math.random() * 1.3, phase: Math.random() * TURN }));
    new ResizeObserver(() => this.#resize()).observe(canvas);
    this.#resize();
  }

  /** Forgets the last run. */
  reset() {
    this.#before = null;
    this.#particles = [];
    this.#words = [];
    this.#rings = [];
    this.#trail = [];
    this.#shake = 0;
    this.#flash = 0;
  }

  /** Draws one frame, `elapsed_ms` after the last one. */
  draw(view, elapsed_ms) {
    const step = Math.min(elapsed_ms, 50) / 16.7;
    this.#clock += step;
    this.#notice(view);
    this.#age(step);
    this.#aim();
    this.#drawSky();
    this.#drawStar(view);
    this.#drawRings(view);
    this.#drawFlares(view);
    this.#drawWave(view);
    for (const mote of view.motes) if (mote.left > 0) this.#drawMote(mote);
    for (const shard of view.shards) this.#drawShard(shard);
    this.#drawParticles();
    if (!view.isOver || view.hull > 0) this.#drawSpark(view);
    this.#drawWords();
    this.#drawFlash();
  }

  // ---- changes since the last frame ----

  #notice(view) {
    const before = this.#before;
    this.#before = { ...view, shards: view.shards };
    if (!before || before.tick > view.tick) return;
    const here = point(view.angle, view.radius);
    if (view.tick !== before.tick) this.#leaveTrail(here);
    if (view.motesTaken > before.motesTaken) this.#celebrate(here, `+${100 * view.multiplier}`, COLOURS.mote, 22);
    if (view.nearMisses > before.nearMisses) this.#celebrate(here, `close! +${20 * view.multiplier}`, COLOURS.spark, 8);
    if (view.multiplier > before.multiplier) this.#say(here, `×${view.multiplier}`, COLOURS.gap, 30);
    if (view.hull < before.hull) this.#hurt(here, view.hull);
    if (before.energy === 6 && view.energy < 6 && view.hull > 0) this.#burst(here);
  }

  #leaveTrail(here) {
    this.#trail.push(here);
    if (this.#trail.length > 26) this.#trail.shift();
  }

  #celebrate(here, text, colour, count) {
    this.#say(here, text, colour, 17);
    this.#scatter(here, colour, count, 3.2);
    this.#rings.push({ ...here, radius: 10, growth: 2.4, life: 1, fade: 0.05, colour });
  }

  #hurt(here, hull) {
    this.#shake = hull === 0 ? 26 : 15;
    this.#flash = hull === 0 ? 0.75 : 0.4;
    this.#scatter(here, COLOURS.shard, 40, 6);
    this.#scatter(here, COLOURS.spark, hull === 0 ? 90 : 20, 7);
    this.#rings.push({ ...here, radius: 12, growth: 5, life: 1, fade: 0.03, colour: COLOURS.hull });
  }

  #burst(here) {
    this.#shake = 9;
    for (const growth of [4, 6, 8]) this.#rings.push({ ...here, radius: 14, growth, life: 1, fade: 0.035, colour: COLOURS.gap });
    this.#scatter(here, COLOURS.gap, 60, 8);
  }

  #say(here, text, colour, size) {
    this.#words.push({ x: here.x * 0.9, y: here.y * 0.9 - 18, text, colour, size, life: 1 });
  }

  #scatter(here, colour, count, speed) {
    for (let i = 0; i < count; i += 1) {
      const way = Math.random() * TURN, pace = speed * (0.25 + Math.random());
      this.#particles.push({ ...here, vx: Math.cos(way) * pace, vy: Math.sin(way) * pace, life: 1, fade: 0.015 + Math.random() * 0.035, size: 1 + Math.random() * 2.4, colour });
    }
  }

  #age(step) {
    this.#shake *= 0.88 ** step;
    this.#flash *= 0.9 ** step;
    for (const p of this.#particles) Object.assign(p, { x: p.x + p.vx * step, y: p.y + p.vy * step, vx: p.vx * 0.96 ** step, vy: p.vy * 0.96 ** step, life: p.life - p.fade * step });
    for (const ring of this.#rings) Object.assign(ring, { radius: ring.radius + ring.growth * step, life: ring.life - ring.fade * step });
    for (const word of this.#words) Object.assign(word, { y: word.y - 0.7 * step, life: word.life - 0.018 * step });
    this.#particles = this.#particles.filter(isAlive);
    this.#rings = this.#rings.filter(isAlive);
    this.#words = this.#words.filter(isAlive);
  }

  // ---- drawing ----

  #resize() {
    const size = Math.max(1, Math.round(this.#canvas.clientWidth * Math.min(window.devicePixelRatio || 1, 2)));
    if (this.#canvas.width !== size) this.#canvas.width = this.#canvas.height = size;
  }

  #aim() {
    const scale = this.#canvas.width / (2 * HALF);
    this.#pen.setTransform(scale, 0, 0, scale, this.#canvas.width / 2 + spread(this.#shake) * scale, this.#canvas.height / 2 + spread(this.#shake) * scale);
    this.#pen.globalAlpha = 1;
    this.#pen.globalCompositeOperation = "source-over";
  }

  #drawSky() {
    const depth = this.#pen.createRadialGradient(0, 0, 40, 0, 0, HALF * 1.45);
    depth.addColorStop(0, "#231434");
    depth.addColorStop(0.45, "#110d26");
    depth.addColorStop(1, "#06060f");
    this.#pen.fillStyle = depth;
    this.#pen.fillRect(-HALF - 40, -HALF - 40, 2 * HALF + 80, 2 * HALF + 80);
    this.#pen.fillStyle = "#cdd6ff";
    for (const star of this.#sky) {
      this.#pen.globalAlpha = 0.25 + 0.3 * Math.sin(this.#clock * 0.03 + star.phase) ** 2;
      this.#pen.fillRect(star.x, star.y, star.size, star.size);
    }
    this.#pen.globalAlpha = 1;
  }

  // The star swells and reddens towards the end; the arc around it shows the time left.
  #drawStar(view) {
    const age = view.tick / LAST_TICK;
    const alarm = view.wave.radius > 0 && view.wave.warning > 0 ? 8 * Math.abs(Math.sin(this.#clock * 0.3)) : 0;
    const size = 34 + 12 * age + 2 * Math.sin(this.#clock * 0.06) + alarm;
    const hue = 42 - 34 * age;
    this.#glow(0, 0, size * 4.4, `hsl(${Math.round(hue)} 100% 55%)`, 0.5);
    const body = this.#pen.createRadialGradient(0, 0, 2, 0, 0, size);
    body.addColorStop(0, "#fffbe8");
    body.addColorStop(0.55, `hsl(${hue + 6} 100% 68%)`);
    body.addColorStop(1, `hsl(${hue - 6} 100% 52%)`);
    this.#disc(0, 0, size, body);
    this.#drawCorona(size, hue);
    this.#arc(66, -TURN / 4, -TURN / 4 + TURN, "#ffffff18", 3);
    this.#arc(66, -TURN / 4, -TURN / 4 + TURN * (1 - age), `hsl(${hue} 100% 66%)`, 3);
  }

  #drawCorona(size, hue) {
    this.#pen.strokeStyle = `hsl(${hue} 100% 62% / 0.55)`;
    this.#pen.lineWidth = 2;
    this.#pen.beginPath();
    for (let i = 0; i < 28; i += 1) {
      const way = (i / 28) * TURN + this.#clock * 0.002;
      const reach = size + 4 + 7 * Math.abs(Math.sin(this.#clock * 0.05 + i * 1.9));
      this.#pen.moveTo(Math.cos(way) * (size + 1), Math.sin(way) * (size + 1));
      this.#pen.lineTo(Math.cos(way) * reach, Math.sin(way) * reach);
    }
    this.#pen.stroke();
  }

  #drawRings(view) {
    RINGS.forEach((radius, ring) => {
      const isHere = ring === view.ring;
      this.#pen.setLineDash(isHere ? [] : [2, 9]);
      this.#arc(radius, 0, TURN, isHere ? "#8ef6ff4d" : "#a9b4ff4a", isHere ? 1.6 : 1.3);
    });
    this.#pen.setLineDash([]);
    this.#arc(348, 0, TURN, "#a9b4ff12", 1);
  }

  #drawFlares(view) {
    for (const flare of view.flares) {
      if (flare.left <= 0) continue;
      if (flare.left <= FLARE_BLAST) this.#drawBlast(flare);
      else this.#drawWarning(flare);
    }
  }

  #drawWarning(flare) {
    const progress = 1 - (flare.left - FLARE_BLAST) / 70;
    this.#wedge(flare, 60, 360, `rgb(255 138 61 / ${0.05 + 0.1 * progress})`);
    this.#wedge({ ...flare, half: flare.half * progress }, 60, 360, `rgb(255 138 61 / ${0.1 + 0.08 * Math.sin(this.#clock * 0.5)})`);
    for (const side of [-1, 1]) {
      const from = point(flare.angle + side * flare.half, 70), to = point(flare.angle + side * flare.half, 350);
      this.#pen.setLineDash([5, 8]);
      this.#line(from, to, "#ff8a3daa", 1.5);
      this.#pen.setLineDash([]);
    }
  }

  #drawBlast(flare) {
    const strength = Math.min(1, flare.left / 9);
    this.#pen.globalCompositeOperation = "lighter";
    for (const [share, light] of [[1, 0.5], [0.72, 0.45], [0.38, 0.5]]) {
      const fill = this.#pen.createRadialGradient(0, 0, 40, 0, 0, HALF * 1.3);
      fill.addColorStop(0, `rgb(255 226 150 / ${light * strength})`);
      fill.addColorStop(0.5, `rgb(255 120 50 / ${light * strength})`);
      fill.addColorStop(1, "rgb(255 60 60 / 0)");
      this.#wedge({ ...flare, half: flare.half * (share + 0.05 * Math.random()) }, 44, HALF * 1.4, fill);
    }
    this.#pen.globalCompositeOperation = "source-over";
  }

  #drawWave({ wave }) {
    if (wave.radius === 0) return;
    const from = wave.gap + wave.half, to = wave.gap - wave.half + TURN;
    if (wave.warning > 0) this.#wedge({ angle: wave.gap, half: wave.half }, 66, 348, "rgb(125 255 181 / 0.09)");
    const radius = wave.warning > 0 ? 74 : wave.radius;
    const alpha = wave.warning > 0 ? "66" : "ff";
    this.#pen.globalCompositeOperation = "lighter";
    this.#arc(radius, from, to, `${COLOURS.wave}33`, 22);
    this.#arc(radius, from, to, `${COLOURS.wave}66`, 11);
    this.#arc(radius, from, to, `#efe6ff${alpha}`, 3);
    this.#pen.globalCompositeOperation = "source-over";
    for (const way of [from, to]) this.#glowDisc(point(way, radius), 5, COLOURS.gap);
  }

  #drawMote(mote) {
    const place = point(mote.angle, RINGS[mote.ring]);
    const pulse = 1 + 0.16 * Math.sin(this.#clock * 0.14 + mote.slot * 2);
    const isFading = mote.left < 90 && Math.floor(mote.left / 6) % 2 === 0;
    this.#glow(place.x, place.y, 34 * pulse, COLOURS.mote, isFading ? 0.25 : 0.65);
    this.#pen.globalAlpha = isFading ? 0.35 : 1;
    this.#shape(place, 9 * pulse, [0, 1, 2, 3].map((i) => [i * TURN / 4 + this.#clock * 0.03, 1]), "#fff6d6", COLOURS.mote);
    this.#pen.strokeStyle = `${COLOURS.mote}aa`;
    this.#pen.lineWidth = 1.5;
    this.#pen.beginPath();
    this.#pen.arc(place.x, place.y, 16, -TURN / 4, -TURN / 4 + TURN * (mote.left / 330));
    this.#pen.stroke();
    this.#pen.globalAlpha = 1;
  }

  #drawShard(shard) {
    const place = point(shard.angle, shard.radius);
    const tail = point(shard.angle - shard.drift * 14, shard.radius + shard.fall * 14);
    const streak = this.#pen.createLinearGradient(place.x, place.y, tail.x, tail.y);
    streak.addColorStop(0, "rgb(255 77 128 / 0.55)");
    streak.addColorStop(1, "rgb(255 77 128 / 0)");
    this.#line(place, tail, streak, shard.size * 1.1);
    this.#glow(place.x, place.y, shard.size * 2.7, COLOURS.shard, 0.5);
    const turn = this.#clock * 0.02 * (shard.drift < 0 ? -1 : 1) + shard.size;
    const corners = [0, 1, 2, 3, 4, 5, 6].map((i) => [turn + (i / 7) * TURN, 0.78 + 0.3 * Math.abs(Math.sin(i * 2.7 + shard.size * 3))]);
    this.#shape(place, shard.size * 1.05, corners, "#3a1030", COLOURS.shard);
    if (shard.radius > 335) this.#drawArrival(shard);
  }

  #drawArrival(shard) {
    const tip = point(shard.angle, 326);
    this.#shape(tip, 8, [[shard.angle + Math.PI, 1.3], [shard.angle + 1, 0.9], [shard.angle - 1, 0.9]], "#ff4d8088", "#ff9db8");
  }

  #drawSpark(view) {
    this.#drawTrail();
    const here = point(view.angle, view.radius);
    const isBlinking = view.shield > 0 && Math.floor(this.#clock / 4) % 2 === 0;
    this.#pen.globalAlpha = isBlinking ? 0.35 : 1;
    this.#glow(here.x, here.y, 44, COLOURS.spark, 0.75);
    const lean = view.angle + Math.PI / 2 + (view.speed < 0 ? Math.PI : 0);
    this.#shape(here, 12, [[lean, 1.25], [lean + 2.2, 0.95], [lean + Math.PI, 0.55], [lean - 2.2, 0.95]], "#f4ffff", COLOURS.spark);
    this.#pen.globalAlpha = 1;
    if (view.shield > 0) this.#circle(here, 21, "#8ef6ffaa", 1.5);
    if (view.energy === 6) this.#circle(here, 26 + 3 * Math.sin(this.#clock * 0.2), `${COLOURS.gap}cc`, 2);
  }

  #drawTrail() {
    this.#pen.globalCompositeOperation = "lighter";
    for (let i = 1; i < this.#trail.length; i += 1) {
      const share = i / this.#trail.length;
      this.#line(this.#trail[i - 1], this.#trail[i], `rgb(142 246 255 / ${0.42 * share * share})`, 11 * share);
    }
    this.#pen.globalCompositeOperation = "source-over";
  }

  #drawParticles() {
    this.#pen.globalCompositeOperation = "lighter";
    for (const p of this.#particles) {
      this.#pen.globalAlpha = p.life;
      this.#pen.fillStyle = p.colour;
      this.#pen.fillRect(p.x - p.size / 2, p.y - p.size / 2, p.size, p.size);
    }
    for (const ring of this.#rings) {
      this.#pen.globalAlpha = ring.life;
      this.#circle(ring, ring.radius, ring.colour, 1 + 4 * ring.life);
    }
    this.#pen.globalAlpha = 1;
    this.#pen.globalCompositeOperation = "source-over";
  }

  #drawWords() {
    this.#pen.textAlign = "center";
    for (const word of this.#words) {
      this.#pen.globalAlpha = Math.min(1, word.life * 2);
      this.#pen.font = `800 ${word.size}px system-ui, sans-serif`;
      this.#pen.lineWidth = 4;
      this.#pen.strokeStyle = "#0b0a1acc";
      this.#pen.strokeText(word.text, word.x, word.y);
      this.#pen.fillStyle = word.colour;
      this.#pen.fillText(word.text, word.x, word.y);
    }
    this.#pen.globalAlpha = 1;
  }

  #drawFlash() {
    if (this.#flash < 0.02) return;
    this.#pen.fillStyle = `rgb(255 70 110 / ${this.#flash})`;
    this.#pen.fillRect(-HALF - 40, -HALF - 40, 2 * HALF + 80, 2 * HALF + 80);
  }

  // ---- brushes ----

  #glow(x, y, radius, colour, alpha) {
    const sprite = this.#glows.get(colour) ?? this.#newGlow(colour);
    const before = this.#pen.globalAlpha;
    this.#pen.globalCompositeOperation = "lighter";
    this.#pen.globalAlpha = before * alpha;
    this.#pen.drawImage(sprite, x - radius, y - radius, 2 * radius, 2 * radius);
    this.#pen.globalAlpha = before;
    this.#pen.globalCompositeOperation = "source-over";
  }

  // One drawn glow for each colour: canvas shadows cost ten times as much.
  #newGlow(colour) {
    const sprite = document.createElement("canvas");
    sprite.width = sprite.height = 128;
    const pen = sprite.getContext("2d");
    const light = pen.createRadialGradient(64, 64, 0, 64, 64, 64);
    light.addColorStop(0, colour);
    light.addColorStop(0.35, colour.startsWith("#") ? `${colour}55` : colour.replace(")", " / 0.33)"));
    light.addColorStop(1, colour.startsWith("#") ? `${colour}00` : colour.replace(")", " / 0)"));
    pen.fillStyle = light;
    pen.fillRect(0, 0, 128, 128);
    this.#glows.set(colour, sprite);
    return sprite;
  }

  #glowDisc(place, size, colour) {
    this.#glow(place.x, place.y, size * 4, colour, 0.8);
    this.#disc(place.x, place.y, size, colour);
  }

  #disc(x, y, radius, fill) {
    this.#pen.fillStyle = fill;
    this.#pen.beginPath();
    this.#pen.arc(x, y, radius, 0, TURN);
    this.#pen.fill();
  }

  #circle({ x, y }, radius, colour, width) {
    this.#pen.strokeStyle = colour;
    this.#pen.lineWidth = width;
    this.#pen.beginPath();
    this.#pen.arc(x, y, radius, 0, TURN);
    this.#pen.stroke();
  }

  #arc(radius, from, to, colour, width) {
    this.#pen.strokeStyle = colour;
    this.#pen.lineWidth = width;
    this.#pen.beginPath();
    this.#pen.arc(0, 0, radius, from, to);
    this.#pen.stroke();
  }

  #wedge({ angle, half }, inner, outer, fill) {
    this.#pen.fillStyle = fill;
    this.#pen.beginPath();
    this.#pen.arc(0, 0, outer, angle - half, angle + half);
    this.#pen.arc(0, 0, inner, angle + half, angle - half, true);
    this.#pen.fill();
  }

  #line(from, to, colour, width) {
    this.#pen.strokeStyle = colour;
    this.#pen.lineWidth = width;
    this.#pen.beginPath();
    this.#pen.moveTo(from.x, from.y);
    this.#pen.lineTo(to.x, to.y);
    this.#pen.stroke();
  }

  #shape(place, size, corners, fill, edge) {
    this.#pen.beginPath();
    for (const [way, reach] of corners) this.#pen.lineTo(place.x + Math.cos(way) * size * reach, place.y + Math.sin(way) * size * reach);
    this.#pen.closePath();
    this.#pen.fillStyle = fill;
    this.#pen.fill();
    this.#pen.strokeStyle = edge;
    this.#pen.lineWidth = 2;
    this.#pen.lineJoin = "round";
    this.#pen.stroke();
  }
}

function point(angle, radius) {
  return { x: Math.cos(angle) * radius, y: Math.sin(angle) * radius };
}

function spread(size) {
  return (Math.random() * 2 - 1) * size;
}

function isAlive(thing) {
  return thing.life > 0;
}
