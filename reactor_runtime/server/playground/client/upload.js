/** Files for events: POST /uploads. */

import { UploadError } from "./errors.js";

const failure = (status, message) => new UploadError(status, message);

/** `socketAddress` is the session's; resolves to {upload: id}. */
export async function upload(socketAddress, { key, token, name }, file) {
  if (!key) throw failure(403, "only the controller of a running session sends files");
  const address = new URL(socketAddress.href.replace(/^ws/, "http").replace(/ws$/, "uploads"));
  for (const [field, value] of Object.entries({ key, token, name })) {
    if (value) address.searchParams.set(field, value);
  }
  const headers = { "Content-Type": file.type || "application/octet-stream" };
  const answer = await fetch(address, { method: "POST", body: file, headers }).catch((error) => {
    throw failure(0, `${name || "the file"} was not sent: ${error.cause?.message || error.message}`);
  });
  if (!answer.ok) throw failure(answer.status, (await answer.text()).trim());
  return answer.json();
}
