import { TranslationBundle } from '@jupyterlab/translation';

/** Format a duration: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`. */
export function duration(ms: number, trans: TranslationBundle): string {
  const seconds = ms / 1000;
  if (seconds < 0.95) {
    return ms < 50
      ? trans.__('%1 ms', Math.round(ms))
      : trans.__('%1 s', seconds.toFixed(1));
  }
  const whole = Math.round(seconds);
  if (whole < 60) {
    return trans.__('%1 s', whole);
  }
  if (whole < 3600) {
    return trans.__('%1 min %2 s', Math.floor(whole / 60), whole % 60);
  }
  const minutes = Math.round(seconds / 60);
  return trans.__('%1 h %2 min', Math.floor(minutes / 60), minutes % 60);
}

/** Format an age in its largest unit: `40 s`, `12 min`, `3 h`, `2 d`. */
export function age(seconds: number, trans: TranslationBundle): string {
  if (seconds < 60) {
    return trans.__('%1 s', Math.round(seconds));
  }
  if (seconds < 3600) {
    return trans.__('%1 min', Math.round(seconds / 60));
  }
  if (seconds < 86_400) {
    return trans.__('%1 h', Math.round(seconds / 3600));
  }
  return trans.__('%1 d', Math.round(seconds / 86_400));
}

/** Format a number of tokens in at most four characters: `850`, `4.2k`, `128k`, `1.1M`. */
export function shortCount(count: number): string {
  if (count < 1000) {
    return String(count);
  }
  if (count < 9950) {
    return `${(count / 1000).toFixed(1)}k`;
  }
  if (count < 999_500) {
    return `${Math.round(count / 1000)}k`;
  }
  return `${(count / 1e6).toFixed(1)}M`;
}

const NUMBER = new Intl.NumberFormat();

export function fullCount(count: number): string {
  return NUMBER.format(count);
}

export function cost(usd: number): string {
  return usd < 0.01 ? '<\u00a0$0.01' : `$${usd.toFixed(2)}`;
}

/** Format a size on disk: `0 MB`, `0.3 MB`, `12 MB`, `1.5 GB`. */
export function fileSize(bytes: number): string {
  const mega = bytes / 1e6;
  if (mega >= 1000) {
    return `${(mega / 1000).toFixed(1)} GB`;
  }
  return mega === 0 || mega >= 10
    ? `${Math.round(mega)} MB`
    : `${Math.max(0.1, mega).toFixed(1)} MB`;
}
