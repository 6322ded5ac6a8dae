import { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { TranslationBundle } from '@jupyterlab/translation';

/**
 * JupyterLab's sanitizer, which additionally replaces images on other servers by links.
 *
 * Loading an image can leak data of the conversation in its URL, and the content that the model
 * reads can make it write such a URL (prompt injection).
 */
export class UntrustedSanitizer implements IRenderMime.ISanitizer {
  constructor(
    private readonly _sanitizer: IRenderMime.ISanitizer,
    private readonly _trans: TranslationBundle,
    private readonly _allowRemoteImages: () => boolean
  ) {}

  get allowNamedProperties(): boolean {
    return false;
  }

  get allowCommandLinker(): boolean {
    return false;
  }

  getAutolink(): boolean {
    return this._sanitizer.getAutolink?.() ?? true;
  }

  sanitize(dirty: string, options?: IRenderMime.ISanitizerOptions): string {
    const clean = this._sanitizer.sanitize(dirty, options);
    return this._allowRemoteImages()
      ? clean
      : withoutRemoteImages(clean, alt =>
          alt
            ? this._trans.__('Image: %1', alt)
            : this._trans.__('Image on another server')
        );
  }
}

/** Replace each image on another server by a link to it. */
export function withoutRemoteImages(
  html: string,
  label: (alt: string) => string
): string {
  if (!/\b(?:src|srcset|poster)\b|url\(/i.test(html)) {
    return html;
  }
  // A document made by DOMParser does not load resources.
  const { body } = new DOMParser().parseFromString(html, 'text/html');
  body.querySelectorAll('[style]').forEach(element => {
    if (/url\(|\\/i.test(element.getAttribute('style')!)) {
      element.removeAttribute('style');
    }
  });
  // All elements with a source load it: images, media, and image buttons.
  body.querySelectorAll('[src], [srcset], [poster]').forEach(element => {
    element.removeAttribute('srcset');
    element.removeAttribute('poster');
    const src = element.getAttribute('src');
    if (src === null || !isRemote(src)) {
      return;
    }
    const link = document.createElement('a');
    link.href = src;
    link.target = '_blank';
    link.rel = 'noopener noreferrer';
    link.textContent = label(element.getAttribute('alt') ?? '');
    element.replaceWith(link);
  });
  return body.innerHTML;
}

function isRemote(src: string): boolean {
  try {
    const url = new URL(src, document.baseURI);
    return (
      /^(https?|ftp):$/.test(url.protocol) &&
      url.origin !== window.location.origin
    );
  } catch {
    return true;
  }
}
