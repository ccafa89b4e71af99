/** Drives the page's Player without audio: a server, an audio clock that runs `ppm` faster, and pieces that come when told. */
async ({ sampleRate = 48000, outputRate = 48000, seconds = 5, piece = 1 / 25, ppm = 0, shown = 0.05, late = [0.005], lateTimes = {},
         gap = null, cutAt = null, tone = null }) => {
  const { Player } = await import("/static/client/sound/player.js");
  const player = new Player(sampleRate, outputRate);
  const speed = 1 + ppm / 1e6;
  const count = Math.round(piece * sampleRate);
  const heard = []; // {ptsS, error}: when each click was heard, against when its picture was shown
  const silent = []; // server times of the quanta in which the steady channel was silent
  const needs = [];
  const wave = [];
  let next = 0;
  let aimed = -1;
  let wasLoud = false;
  const startOf = (n) => (n * count) / sampleRate + (gap && n >= gap.piece ? gap.seconds : 0);
  const arrivalOf = (n) => startOf(n) + (lateTimes[n] ?? late[n % late.length]);
  const pieceOf = (n) => {
    const samples = new Int16Array(2 * count);
    for (let i = 0; i < count; i++) {
      const number = n * count + i;
      samples[2 * i] = tone ? 16384 * Math.sin((2 * Math.PI * tone * number) / sampleRate) : number % sampleRate < 8 ? 30000 : 0;
      samples[2 * i + 1] = 16384;
    }
    return { ptsS: startOf(n), channels: 2, samples };
  };
  const quantum = 128 / outputRate;
  const sides = [new Float32Array(128), new Float32Array(128)];
  for (let now = 0; now < seconds * speed; now += quantum) {
    const server = now / speed;
    while (arrivalOf(next) <= server) player.push(pieceOf(next++), now);
    if (shown !== null && server - aimed > 0.1) player.aim(now - ((aimed = server) - shown));
    if (cutAt !== null && server >= cutAt && server - cutAt < quantum) player.cut(Infinity);
    player.render(sides, now);
    sides[0].forEach((value, i) => {
      if (tone) wave.push(value);
      if (!tone && value > 0.4 && !wasLoud) {
        const at = (now + i / outputRate) / speed;
        heard.push({ at, error: (at - (shown ?? 0)) - Math.round(at - (shown ?? 0)) });
      }
      wasLoud = value > 0.4;
    });
    if (sides[1].some((value) => value < 0.25)) silent.push(server);
    needs.push(player.need);
  }
  return { heard, silent, wave, needs };
}
