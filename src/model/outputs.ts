import { IBlock, IOutput } from '../api/frames';

/**
 * Return the outputs with their image data filled in.
 *
 * An image that was also sent to the model is stored once, in the content of the tool result; the
 * output then holds `{content_index}` instead of the data.
 */
export function resolveOutputs(
  outputs: readonly IOutput[],
  content: readonly IBlock[]
): IOutput[] {
  return outputs.map(output => {
    if (!output.data || typeof output.data !== 'object') {
      return output;
    }
    const data: Record<string, unknown> = { ...output.data };
    let changed = false;
    for (const [mimeType, value] of Object.entries<any>(output.data)) {
      const index = value?.content_index;
      if (typeof index === 'number') {
        changed = true;
        const image = content[index]?.source?.data;
        if (typeof image === 'string') {
          data[mimeType] = image;
        } else {
          delete data[mimeType];
        }
      }
    }
    return changed ? { ...output, data } : output;
  });
}

/** Return the text of the content of a tool result. */
export function contentText(content: readonly IBlock[]): string {
  return content
    .filter(block => block.type === 'text' && typeof block.text === 'string')
    .map(block => block.text)
    .join('\n');
}

/** Split a text into its first sentence and the rest. */
export function firstSentence(text: string): [string, string] {
  const end = /[.!?…](?=\s|$)|\n|$/.exec(text)!;
  const length = end.index + end[0].length;
  return [text.slice(0, length).trim(), text.slice(length).trim()];
}

/** Return the images of a tool result as notebook outputs, for a tool that has no outputs. */
export function contentImages(content: readonly IBlock[]): IOutput[] {
  const outputs: IOutput[] = [];
  for (const block of content) {
    const source = block.type === 'image' ? block.source : null;
    if (source?.type === 'base64') {
      outputs.push({
        output_type: 'display_data',
        data: { [source.media_type]: source.data },
        metadata: {}
      });
    }
  }
  return outputs;
}
