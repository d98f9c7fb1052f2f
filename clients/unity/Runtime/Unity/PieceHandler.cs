#if UNITY_5_3_OR_NEWER
using System.IO;
using UnityEngine.Networking;

namespace Scoregate
{
    /// <summary>Takes an answer piece by piece: hands on those of a feed, and keeps no more of others than is allowed.</summary>
    internal sealed class PieceHandler : DownloadHandlerScript
    {
        private const int PieceBytes = 16 * 1024;

        private readonly WireRequest request;
        private readonly MemoryStream kept = new MemoryStream();
        private bool hasBegun;

        internal PieceHandler(WireRequest request) : base(new byte[PieceBytes])
        {
            this.request = request;
        }

        internal UnityWebRequest Web { get; set; }

        /// <summary>True once a feed has begun.</summary>
        internal bool IsStreamed { get; private set; }

        internal bool IsTooLarge { get; private set; }

        /// <summary>The bytes so far.</summary>
        internal long Bytes { get; private set; }

        internal byte[] Kept() => kept.ToArray();

        /// <inheritdoc/>
        protected override bool ReceiveData(byte[] piece, int length)
        {
            if (piece == null || length <= 0)
            {
                return true;
            }

            Begin();
            Bytes += length;
            if (IsStreamed)
            {
                return request.OnBytes(piece, length);
            }

            IsTooLarge = kept.Length + length > request.MostBytes;
            if (!IsTooLarge)
            {
                kept.Write(piece, 0, length);
            }

            return !IsTooLarge;
        }

        private void Begin()
        {
            if (hasBegun)
            {
                return;
            }

            hasBegun = true;
            IsStreamed = request.OnBytes != null && Web.responseCode == 200
                && WireAnswer.MediaTypeOf(Web.GetResponseHeader("Content-Type")) == WireRequest.EventStream;
        }
    }
}
#endif
