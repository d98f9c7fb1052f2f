#if UNITY_5_3_OR_NEWER
using System.Collections;
using UnityEngine;

namespace Scoregate
{
    /// <summary>Runs waits and requests on Unity's player loop, so that no thread is needed.</summary>
    internal sealed class ScoregateRunner : MonoBehaviour
    {
        private static ScoregateRunner instance;

        /// <summary>Begin work that goes on once a frame. Call it on the main thread, while the game plays.</summary>
        internal static void Begin(IEnumerator work)
        {
            if (instance == null)
            {
                var host = new GameObject("Scoregate") { hideFlags = HideFlags.HideInHierarchy };
                DontDestroyOnLoad(host);
                instance = host.AddComponent<ScoregateRunner>();
            }

            instance.StartCoroutine(work);
        }
    }
}
#endif
