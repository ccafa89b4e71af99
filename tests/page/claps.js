/** Notes when the page paints a white frame (window.seen) and when a click leaves the loudspeaker (window.heard), in ms. */

window.seen = [];
window.heard = [];

const draw = CanvasRenderingContext2D.prototype.drawImage;
const whiteTracks = new Set();
CanvasRenderingContext2D.prototype.drawImage = function (...picture) {
  draw.apply(this, picture);
  const { track } = this.canvas.dataset;
  const isWhite = this.getImageData(0, 0, 1, 1).data[0] > 128;
  if (isWhite && !whiteTracks.has(track)) window.seen.push(performance.now());
  whiteTracks[isWhite ? "add" : "delete"](track);
};

/** Runs on the audio thread: tells the time, on its clock, of each sound that follows a tenth of a second of silence. */
const tap = () => {
  class Tap extends AudioWorkletProcessor {
    #quietFrom = 0;

    process([[channel = []]]) {
      channel.forEach((value, i) => {
        const now = currentTime + i / sampleRate;
        if (Math.abs(value) < 0.1) return;
        if (now - this.#quietFrom > 0.1) this.port.postMessage(now);
        this.#quietFrom = now;
      });
      return true;
    }
  }
  registerProcessor("tap", Tap);
};

const add = AudioWorklet.prototype.addModule;
AudioWorklet.prototype.addModule = async function (url) {
  await add.call(this, URL.createObjectURL(new Blob([`(${tap})()`], { type: "text/javascript" })));
  await add.call(this, url);
};

const connect = AudioNode.prototype.connect;
AudioNode.prototype.connect = function (target, ...rest) {
  if (target instanceof AudioDestinationNode) {
    const { context } = this;
    window.tap ??= new AudioWorkletNode(context, "tap", { numberOfOutputs: 0 });
    window.tap.port.onmessage = ({ data }) => {
      const { contextTime, performanceTime } = context.getOutputTimestamp();
      window.heard.push(performanceTime + 1000 * (data - contextTime));
    };
    connect.call(this, window.tap);
  }
  return connect.call(this, target, ...rest);
};
