/** The first command that a client has sent, if all of it has arrived. */
export function firstCommand(
  data: Buffer,
): { readonly args: readonly string[]; readonly length: number } | undefined {
  let at = 0;
  const number = (): number | undefined => {
    const end = data.indexOf('\r\n', at);
    if (end === -1) return undefined;
    const found = Number(data.toString('latin1', at + 1, end));
    at = end + 2;
    return found;
  };
  const count = number();
  if (count === undefined) return undefined;
  const args: string[] = [];
  for (let i = 0; i < count; i++) {
    const length = number();
    if (length === undefined || data.length < at + length + 2) return undefined;
    args.push(data.toString('latin1', at, at + length));
    at += length + 2;
  }
  return { args, length: at };
}
