import { IBlock, ServerFrame } from '../api/frames';
import { Item } from './items';

type DeltaFrame = Extract<ServerFrame, { type: 'delta' }>;

/** The assistant message that is being streamed, as items. */
export class LiveMessage {
  /**
   * @param id - The stream's id of the message.
   * @param key - Prefix of the items' keys; the items of the later record get the same prefix.
   */
  constructor(
    readonly id: string,
    readonly turn: string,
    private readonly _key: string
  ) {}

  get items(): Item[] {
    return [...this._blocks.keys()]
      .sort((a, b) => a - b)
      .map(index => this._blocks.get(index)!);
  }

  push(frame: DeltaFrame): void {
    const text = frame.text ?? '';
    const item =
      this._blocks.get(frame.index) ??
      this._start(frame.index, frame.start ?? { type: BLOCK_OF[frame.block] });
    if (!item) {
      return;
    }
    if (item.kind === 'tool') {
      this._blocks.set(frame.index, {
        ...item,
        inputText: item.inputText + (frame.block === 'input' ? text : '')
      });
    } else if (
      (item.kind === 'text' && frame.block === 'text') ||
      (item.kind === 'thinking' && frame.block === 'thinking')
    ) {
      this._blocks.set(frame.index, { ...item, text: item.text + text });
    }
    this._settleBefore(frame.index);
  }

  private _start(index: number, block: IBlock): Item | null {
    const base = { key: blockKey(this._key, index), turn: this.turn };
    let item: Item;
    switch (block.type) {
      case 'text':
        item = {
          ...base,
          kind: 'text',
          text: block.text ?? '',
          streaming: true
        };
        break;
      case 'thinking':
        item = {
          ...base,
          kind: 'thinking',
          text: block.thinking ?? '',
          streaming: true
        };
        break;
      case 'tool_use':
        item = toolItem(base.key, this.turn, block, 'writing');
        break;
      default:
        return null;
    }
    this._blocks.set(index, item);
    return item;
  }

  /** End the streaming of earlier blocks: blocks arrive one after the other. */
  private _settleBefore(index: number): void {
    for (const [other, item] of this._blocks) {
      if (
        other < index &&
        (item.kind === 'text' || item.kind === 'thinking') &&
        item.streaming
      ) {
        this._blocks.set(other, { ...item, streaming: false });
      }
    }
  }

  private _blocks = new Map<number, Item>();
}

const BLOCK_OF: Record<DeltaFrame['block'], string> = {
  start: 'unknown',
  text: 'text',
  thinking: 'thinking',
  input: 'unknown'
};

export function blockKey(prefix: string, index: number): string {
  return `${prefix}.${index}`;
}

/** Return the items of a complete message. Blocks with nothing to show are skipped. */
export function messageItems(
  prefix: string,
  turn: string | null,
  content: readonly IBlock[]
): Item[] {
  const items: Item[] = [];
  content.forEach((block, index) => {
    const key = blockKey(prefix, index);
    if (block.type === 'text' && block.text) {
      items.push({
        kind: 'text',
        key,
        turn,
        text: block.text,
        streaming: false
      });
    } else if (block.type === 'thinking' && block.thinking) {
      items.push({
        kind: 'thinking',
        key,
        turn,
        text: block.thinking,
        streaming: false
      });
    } else if (block.type === 'tool_use') {
      items.push(toolItem(key, turn, block, 'waiting'));
    }
  });
  return items;
}

function toolItem(
  key: string,
  turn: string | null,
  block: IBlock,
  status: 'writing' | 'waiting'
): Item {
  return {
    kind: 'tool',
    key,
    turn,
    callId: block.id ?? '',
    name: block.name ?? '',
    input: status === 'writing' ? null : (block.input ?? {}),
    inputText: '',
    status,
    approval: null,
    outputs: [],
    content: [],
    outputFile: null,
    leftOut: 0,
    durationMs: null,
    startedAt: null,
    goesOn: false,
    message: null,
    change: null
  };
}
