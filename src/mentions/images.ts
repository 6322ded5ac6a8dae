import { IImageAttachment } from '../api/attachments';

/**
 * Maximum length of the longer side in pixels. Models scale down larger images, and reject images
 * of more than 2,000 pixels in requests with many images.
 */
const MAX_SIDE = 1568;

/** Maximum size in bytes of an image that is sent unchanged: less than 5 MiB as base64. */
const MAX_BYTES = 3_700_000;

const SENT_AS_THEY_ARE = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** Return the images among files that were pasted or dropped. */
export function imagesAmong(files: FileList | undefined): File[] {
  return [...(files ?? [])].filter(({ type }) => type.startsWith('image/'));
}

/**
 * Return an image in a format and size that models accept. It is scaled down and re-encoded only if
 * necessary.
 *
 * @throws If the browser cannot read the image.
 */
export async function imageAttachment(file: File): Promise<IImageAttachment> {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, MAX_SIDE / Math.max(bitmap.width, bitmap.height));
  let blob: Blob = file;
  if (
    scale < 1 ||
    file.size > MAX_BYTES ||
    !SENT_AS_THEY_ARE.includes(file.type)
  ) {
    const canvas = document.createElement('canvas');
    canvas.width = Math.max(1, Math.round(bitmap.width * scale));
    canvas.height = Math.max(1, Math.round(bitmap.height * scale));
    const context = canvas.getContext('2d')!;
    context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    blob = await encoded(canvas, 'image/png');
    if (blob.size > MAX_BYTES) {
      // JPEG has no transparency: without a background, transparent areas would be black.
      context.globalCompositeOperation = 'destination-over';
      context.fillStyle = 'white';
      context.fillRect(0, 0, canvas.width, canvas.height);
      blob = await encoded(canvas, 'image/jpeg');
    }
  }
  bitmap.close();
  return {
    type: 'image',
    value: file.name || 'image',
    mimetype: blob.type,
    data: await base64(blob)
  };
}

function encoded(canvas: HTMLCanvasElement, type: string): Promise<Blob> {
  return new Promise((resolve, reject) => {
    canvas.toBlob(
      blob => (blob ? resolve(blob) : reject(new Error('Not an image.'))),
      type
    );
  });
}

function base64(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).split(',', 2)[1]);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}
