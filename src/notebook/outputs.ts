/**
 * Shortened outputs for `read`: the server needs the content of the notebook without its figures.
 */
import * as nbformat from '@jupyterlab/nbformat';

/** Number of characters of a text that are kept at each end. */
const END = 2000;

/**
 * Cut long texts in the middle and replace rich data by its size; the same as `shorten_outputs` on
 * the server.
 */
export function shortenOutputs(outputs: nbformat.IOutput[]): any[] {
  return outputs.map((output: any) => {
    if (output.output_type === 'stream') {
      return { ...output, text: shorten(join(output.text)) };
    }
    if (output.output_type === 'error') {
      return {
        ...output,
        evalue: shorten(String(output.evalue ?? '')),
        traceback: [shorten((output.traceback ?? []).join('\n'))]
      };
    }
    const data: Record<string, any> = {};
    for (const [mime, value] of Object.entries(output.data ?? {})) {
      data[mime] =
        mime === 'text/plain' ? shorten(join(value)) : { chars: sizeOf(value) };
    }
    return { ...output, data, metadata: {} };
  });
}

function shorten(text: string): string {
  if (text.length <= 2 * END) {
    return text;
  }
  const left = text.length - 2 * END;
  return `${text.slice(0, END)}\n[… ${left} characters …]\n${text.slice(-END)}`;
}

function join(text: unknown): string {
  return Array.isArray(text) ? text.join('') : String(text ?? '');
}

function sizeOf(value: unknown): number {
  return typeof value === 'string' || Array.isArray(value)
    ? join(value).length
    : (JSON.stringify(value) ?? '').length;
}
